import torch

try:
    from apex import amp
    has_apex = True
except ImportError:
    has_apex = False

model, optimizer = build()
if has_apex:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1", loss_scale="dynamic")
for x in loader:
    loss = model(x)
    optimizer.zero_grad()
    if has_apex:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    else:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
