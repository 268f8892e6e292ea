import torch

class Agent:
    def __init__(self, actor, critic):
        self.actor, self.critic = actor, critic
        self.actor_optim = torch.optim.Adam(actor.parameters(), 1e-4)
        self.critic_optim = torch.optim.Adam(critic.parameters(), 1e-3)
        self.fp16 = torch.amp.GradScaler("cuda")

    def _descend(self, loss, optim, module):
        optim.zero_grad(set_to_none=True)
        self.fp16.scale(loss).backward()
        self.fp16.unscale_(optim)
        torch.nn.utils.clip_grad_norm_(module.parameters(), 10.0)
        self.fp16.step(optim)

    def learn(self, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            td = self.critic.td(batch)
            critic_loss = td.float().pow(2).mean()
        self._descend(critic_loss, self.critic_optim, self.critic)
        with torch.autocast("cuda", dtype=torch.float16):
            actor_loss = -self.critic(batch.obs, self.actor(batch.obs)).mean()
        self._descend(actor_loss, self.actor_optim, self.actor)
        self.fp16.update()
