import pytest

from scaling_study.profiling.operator_groups import OTHER, group_of

MATRIX, NEW, STREAM = "matrix multiply", "allocation and new memory", "streaming in place"
RANDOM, GATHER, PYTHON = "random numbers", "gather and copy", "Python and dispatch"


@pytest.mark.parametrize(
    ("operator", "group"),
    [
        ("aten::mm", MATRIX),
        ("aten::convolution_backward", MATRIX),
        ("aten::mul", NEW),
        ("aten::native_layer_norm_backward", NEW),
        ("[memory]", NEW),
        ("aten::mul_", STREAM),
        ("aten::_foreach_mul_", STREAM),
        ("aten::_fused_adamw_", STREAM),
        ("aten::bernoulli_", RANDOM),
        ("aten::native_dropout_backward", NEW),
        ("aten::index", GATHER),
        ("aten::t", PYTHON),
        ("autograd::engine::evaluate_function: AddmmBackward0", PYTHON),
        ("autograd::engine::evaluate_function: Ad...", PYTHON),
        ("mine::special", OTHER),
        ("", OTHER),
    ],
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
