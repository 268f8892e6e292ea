import torch
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast

teacher = load_teacher().cuda().half().eval()
student = Student().cuda()
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
scaler = GradScaler()
for x, y in loader:
    with torch.no_grad():
        soft = teacher(x.half()).float()
    with autocast():
        out = student(x)
        kd = F.kl_div(F.log_softmax(out / 4, dim=1), F.softmax(soft / 4, dim=1), reduction="batchmean")
        loss = F.cross_entropy(out, y) + 16 * kd
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
