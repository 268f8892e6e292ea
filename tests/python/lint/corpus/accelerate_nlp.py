import torch
from accelerate import Accelerator
from transformers import get_linear_schedule_with_warmup


def training_function(config, args):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=4)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    lr_scheduler = get_linear_schedule_with_warmup(optimizer, 100, 1000)
    model, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(model, optimizer, loader, lr_scheduler)
    for epoch in range(3):
        model.train()
        for step, batch in enumerate(train_dataloader):
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
    accelerator.save_state("out")


training_function({"lr": 2e-5}, None)
