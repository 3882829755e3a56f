"""A PyTorch model goes to a node, is trained there, and comes back."""

import skyward as sky


@sky.compute
def train(model, x, y, steps):
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


def main():
    import torch

    torch.manual_seed(0)
    x = torch.randn(200, 3)
    y = x @ torch.tensor([[1.0], [2.0], [3.0]])
    model = torch.nn.Linear(3, 1)
    with sky.ComputePool() as pool:
        trained = train(model, x, y, 200) >> pool
    print(f"weights {[round(w, 2) for w in trained.weight.flatten().tolist()]}")
    assert torch.allclose(trained.weight, torch.tensor([[1.0, 2.0, 3.0]]), atol=0.01)
    assert not torch.allclose(model.weight, trained.weight)  # the local one did not change


if __name__ == "__main__":
    main()
