import pytest

from scaling_study.profiling.operator_groups import OTHER, group_of

NORM, DROPOUT = "aten::native_layer_norm_backward", "aten::native_dropout_backward"
ADDMM = "autograd::engine::evaluate_function: AddmmBackward0"
GROUPS = {
    "matrix multiply": ("aten::mm", "aten::convolution_backward"),
    "allocation and new memory": ("aten::mul", NORM, DROPOUT, "[memory]"),
    "streaming in place": ("aten::mul_", "aten::_foreach_mul_", "aten::_fused_adamw_"),
    "random numbers": ("aten::bernoulli_",),
    "gather and copy": ("aten::index",),
    "Python and dispatch": ("aten::t", ADDMM, "autograd::engine::evaluate_function: Ad..."),
    OTHER: ("mine::special", ""),
}


@pytest.mark.parametrize(
    ("operator", "group"), [(each, group) for group, all_of in GROUPS.items() for each in all_of]
)
def test_an_operator_is_in_the_group_of_what_bounds_it(operator, group):
    assert group_of(operator) == group


def test_the_operators_of_a_real_training_are_all_known():
    import torch
    from torch.profiler import ProfilerActivity, profile

    model = torch.nn.Sequential(
        torch.nn.Embedding(9, 8), torch.nn.TransformerEncoderLayer(8, 2, 8), torch.nn.Flatten()
    )
    optimizer = torch.optim.AdamW(model.parameters())
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randint(9, (2, 4))).square().mean().backward()
            optimizer.step()
    names = {event.key for event in found.key_averages()}
    assert "aten::addmm" in names
    assert {name for name in names if group_of(name) == OTHER} == set()
