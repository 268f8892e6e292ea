import deepspeed

config = {
    "train_batch_size": 32,
    "fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 1000},
    "zero_optimization": {"stage": 2},
    "gradient_clipping": 1.0,
}
engine, optimizer, _, scheduler = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for batch in loader:
    loss = engine(batch)
    engine.backward(loss)
    engine.step()
engine.save_checkpoint("out")
