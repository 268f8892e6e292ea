import torch


class Agent:
    def __init__(self, cfg):
        self.scaler = torch.amp.GradScaler(device="cuda", enabled=cfg.mixed_precision)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-4)

    def _update(self, batch):
        for gradient_step in range(self.cfg.gradient_steps):
            with torch.autocast(device_type="cuda", enabled=self.cfg.mixed_precision):
                critic_loss = self.critic_loss(batch)
            self.critic_opt.zero_grad()
            self.scaler.scale(critic_loss).backward()
            if self.cfg.grad_norm_clip > 0:
                self.scaler.unscale_(self.critic_opt)
                torch.nn.utils.clip_grad_norm_(self.critic.parameters(), self.cfg.grad_norm_clip)
            self.scaler.step(self.critic_opt)
            if gradient_step % self.cfg.policy_delay == 0:
                with torch.autocast(device_type="cuda", enabled=self.cfg.mixed_precision):
                    actor_loss = self.actor_loss(batch)
                self.actor_opt.zero_grad()
                self.scaler.scale(actor_loss).backward()
                self.scaler.step(self.actor_opt)
            self.scaler.update()
