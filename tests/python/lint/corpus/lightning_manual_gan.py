import pytorch_lightning as pl
import torch


class GAN(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        opt_g, opt_d = self.optimizers()
        real, _ = batch
        self.toggle_optimizer(opt_g)
        g_loss = self.adversarial(self.discriminator(self(self.noise(real))))
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        self.clip_gradients(opt_g, gradient_clip_val=1.0)
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        d_loss = self.discriminate(real)
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.generator.parameters()), torch.optim.Adam(self.discriminator.parameters())


pl.Trainer(precision=16).fit(GAN())
