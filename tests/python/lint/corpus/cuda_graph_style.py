import torch
N = 64
model = torch.nn.Sequential(torch.nn.Linear(N, N), torch.nn.ReLU(), torch.nn.Linear(N, 1)).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
static_x, static_y = torch.randn(32, N, device="cuda"), torch.randn(32, 1, device="cuda")
graph = torch.cuda.CUDAGraph()
opt.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
        static_loss = torch.nn.functional.mse_loss(model(static_x), static_y)
    scaler.scale(static_loss).backward()
for x, y in []:
    static_x.copy_(x)
    static_y.copy_(y)
    graph.replay()
    scaler.step(opt)
    scaler.update()
