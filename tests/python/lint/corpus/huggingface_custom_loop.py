import torch
from torch.cuda.amp import GradScaler, autocast
from transformers import get_cosine_schedule_with_warmup


def train(args, model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, eps=args.adam_epsilon)
    scheduler = get_cosine_schedule_with_warmup(optimizer, args.warmup, args.steps)
    scaler = GradScaler(enabled=args.fp16)
    model.zero_grad()
    for epoch in range(args.epochs):
        for step, batch in enumerate(loader):
            with autocast(enabled=args.fp16):
                loss = model(**batch)[0]
            if args.gradient_accumulation_steps > 1:
                loss = loss / args.gradient_accumulation_steps
            scaler.scale(loss).backward()
            if (step + 1) % args.gradient_accumulation_steps == 0:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
                scale_before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer_was_run = scale_before <= scaler.get_scale()
                if optimizer_was_run:
                    scheduler.step()
                model.zero_grad()
    torch.save(model.state_dict(), "pytorch_model.bin")
