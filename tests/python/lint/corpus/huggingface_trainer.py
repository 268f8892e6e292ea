from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("base")
arguments = TrainingArguments("out", fp16=True, gradient_accumulation_steps=4, max_grad_norm=1.0, num_train_epochs=3)
trainer = Trainer(model=model, args=arguments, train_dataset=train, eval_dataset=test)
trainer.train(resume_from_checkpoint=True)
