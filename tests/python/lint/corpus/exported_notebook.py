#!/usr/bin/env python
# coding: utf-8

# # Digits

# In[1]:


get_ipython().run_line_magic("matplotlib", "inline")
import torch
from torch.cuda.amp import GradScaler, autocast


# In[2]:


scaler = GradScaler()
optimizer = torch.optim.Adam(model.parameters())


# In[3]:


for epoch in range(5):
    for x, y in loader:
        optimizer.zero_grad()
        with autocast():
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
