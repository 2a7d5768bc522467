"""The assisted search: its model against a plain Gaussian process, its choices, its invariants."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import search_toys as toy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from jcw_core.backbones.resnet import RESNET18
from jcw_core.space.space import Population, SearchSpace
from jcw_search import AssistedSearch, Fixed, State, checkpoint, search
from jcw_search.assisted import likelihood
from jcw_search.assisted.kernel import Kernel, features
from jcw_search.assisted.model import Model
from jcw_search.assisted.niches import Niches
from jcw_search.assisted.positions import Positions
from jcw_search.pareto import non_dominated
from jcw_search.phases import Variant

VARIANTS: list[Variant] = ["joint", "channels", "weights", "sequential"]
ROOMY = SearchSpace.of(RESNET18.build(num_classes=10, input_size=32), defaults=RESNET18.bounds)


@pytest.mark.parametrize("length", [0.3, 0.6, 1.0])
def test_features_multiply_to_the_kernel_that_they_stand_for(length: float, rng: np.random.Generator) -> None:
    x, y = rng.random((2, 50, 3))
    products = np.einsum("ndk,mdk->dnm", features(x, length), features(y, length))
    expected = np.exp(-0.5 * ((x.T[:, :, None] - y.T[:, None, :]) / length) ** 2)
    np.testing.assert_allclose(products, expected, atol=1e-3)


def covariance(kernel: Kernel, x: np.ndarray) -> np.ndarray:
    """The kernel matrix of rows (n, d), from its formula."""
    apart = x[:, None] - x
    alone = np.exp(-0.5 * (apart / kernel.length) ** 2) @ kernel.weights
    return alone + kernel.joint_weight * np.exp(-0.5 * (apart**2).sum(2) / kernel.joint_length**2)


def test_the_first_kernel_is_the_likeliest_of_its_grid(rng: np.random.Generator) -> None:
    """Against the density of a normal distribution; nothing else of the grid may be likelier."""
    x = rng.random((40, 4))
    y = np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(40)
    y = (y - y.mean()) / y.std()
    best = likelihood.likely(x, y)[0]
    assert best.weights.argmax() == 0
    assert best.weights.sum() == pytest.approx(1)

    def score(kernel: Kernel) -> float:
        matrix = covariance(kernel, x) + kernel.noise * np.eye(40)
        inverse = np.linalg.inv(matrix)
        mean = inverse.sum(axis=0) @ y / inverse.sum()
        variance = (y - mean) @ inverse @ (y - mean) / 40
        return float(multivariate_normal(np.full(40, mean), variance * matrix).logpdf(y))

    for joint_length in (2.0, 4.0):
        for joint_weight in (0.2, 1.0):
            for noise in (1e-3, 1e-2, 0.1, 1.0):
                other = Kernel(best.length, best.weights, joint_length, joint_weight, noise)
                assert score(other) <= score(best) + 0.05


def test_without_noise_a_model_gives_back_what_it_saw_and_predicts_the_rest(rng: np.random.Generator) -> None:
    rows = ROOMY.sample(300, rng)
    values = toy.error(ROOMY, rows)
    model = Model.fit(ROOMY, np.ones(ROOMY.dimensions, dtype=bool), rows[:250], values[:250])
    np.testing.assert_array_equal(model.smoothed(rows[:250], values[:250]), values[:250])
    np.testing.assert_allclose(model.predict(rows[:250]), values[:250], rtol=1e-2)
    assert np.corrcoef(model.predict(rows[250:]), values[250:])[0, 1] > 0.99


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.05), st.booleans())
def test_a_model_is_nearer_to_the_truth_than_what_it_saw(seed: int, noise: float, negative: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = ROOMY.sample(300, rng)
    truth = toy.error(ROOMY, rows) - (1 if negative else 0)
    seen = truth + noise * rng.standard_normal(300)
    model = Model.fit(ROOMY, np.ones(ROOMY.dimensions, dtype=bool), rows, seen)
    smoothed = model.smoothed(rows, seen)
    assert np.std(smoothed - truth) < 0.7 * np.std(seen - truth)


def test_a_constant_is_learned_as_one(rng: np.random.Generator) -> None:
    rows = ROOMY.sample(30, rng)
    model = Model.fit(ROOMY, np.ones(ROOMY.dimensions, dtype=bool), rows, np.full(30, 0.25))
    np.testing.assert_allclose(model.predict(ROOMY.sample(9, rng)), 0.25)


def test_positions_are_of_variables_and_of_the_product_of_both_kinds_in_a_layer(
    rng: np.random.Generator,
) -> None:
    rows = ROOMY.sample(50, rng)
    positions = Positions.of(ROOMY, np.ones(ROOMY.dimensions, dtype=bool))
    layer = "layer2.0.conv1"
    assert layer in positions.layers
    assert "fc" not in positions.layers, "all classes are kept"
    found = positions(rows)
    assert found.shape == (50, ROOMY.dimensions + len(positions.layers))
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(
        positions(np.stack([ROOMY.low, ROOMY.high])), [[0], [1]] * np.ones(found.shape[1])
    )
    several = np.stack([ROOMY.low, ROOMY.high, *rows])
    least, most, *weights = ROOMY.channels(several, layer) * ROOMY.density(several, layer)
    own = found[:, ROOMY.dimensions + positions.layers.index(layer)]
    np.testing.assert_allclose(least * (most / least) ** own, weights)


@pytest.mark.parametrize("varies", [ROOMY.is_width, ~ROOMY.is_width], ids=["channels", "weights"])
def test_where_one_kind_varies_there_is_no_product(varies: np.ndarray, rng: np.random.Generator) -> None:
    assert Positions.of(ROOMY, varies)(ROOMY.sample(3, rng, varies)).shape == (3, varies.sum())


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.integers(1, 3))
def test_the_best_of_each_slice_lives_on(seed: int, n: int, slices: int, others: int) -> None:
    rng = np.random.default_rng(seed)
    objectives = rng.random((n, 1 + others))
    window = np.stack([np.zeros(1 + others), np.ones(1 + others)])
    niches = Niches.of(slices, window, objectives, rng)
    best = niches.best(objectives)
    own = np.minimum((objectives[:, 0] * slices).astype(int), slices - 1)
    assert own[best].tolist() == sorted(set(own))
    for index in best:
        rivals = objectives[own == own[index]]
        worse = (rivals[:, 1:] < objectives[index, 1:]).all(axis=1)
        assert not worse.any()
        if others == 1:
            assert objectives[index, 1] == rivals[:, 1].min()


@pytest.mark.parametrize("variant", VARIANTS)
def test_invariants_of_an_assisted_search(space: SearchSpace, variant: Variant) -> None:
    states: list[State] = []
    seen: list[bytes] = []

    def error(space: SearchSpace, population: Population) -> Population:
        seen.extend(row.tobytes() for row in population)
        return toy.error(space, population)

    evaluators = {"latency": Fixed(toy.latency, exact=True), "error": Fixed(error)}
    result = search(
        space, evaluators, population=12, generations=6, variant=variant, seed=3, callback=states.append
    )
    assert len(seen) == len(set(seen))
    assert len(result.values) >= 12 * 7
    assert ((result.values >= space.low) & (result.values <= space.high)).all()
    np.testing.assert_array_equal(space.decode(space.encode(result.values)), result.values)
    if variant in ("channels", "weights"):
        fixed = ~space.is_width if variant == "channels" else space.is_width
        assert (result.values[:, fixed] == space.high[fixed]).all()
    np.testing.assert_array_equal(result.objectives[:, 1], toy.error(space, result.values))
    # There is no noise, so that the front is that of the archive.
    np.testing.assert_array_equal(result.front, non_dominated(result.objectives))
    np.testing.assert_array_equal(result.reported, result.objectives[result.front])
    assert (np.diff(result.hypervolume) >= -1e-12).all()
    assert [state.generation for state in states] == list(range(7))


@pytest.mark.parametrize(("generation", "drawn"), [(0, True), (2, True), (4, False)])
def test_until_models_know_enough_one_kind_is_drawn_anew_for_survivors(generation: int, drawn: bool) -> None:
    """The first and three generations of 24 are 96 evaluations, three for each of the 32 variables."""
    evaluators = {
        "latency": Fixed(lambda s, p: s.encode(p).mean(axis=1), exact=True),
        "error": Fixed(toy.error),
    }
    assisted = AssistedSearch(space=ROOMY, evaluators=evaluators, population=24, generations=10)
    state = assisted.start(np.random.default_rng(0))
    while state.generation < generation:
        state = assisted.step(state, np.random.default_rng(state.generation))
    born, parents = assisted.propose(state, np.random.default_rng(9)), state.values[state.population]
    assert len(born) == 24
    for kept, count in ((ROOMY.is_width, 8), (~ROOMY.is_width, 4)):
        same = (born[:, None, kept] == parents[:, kept]).all(axis=2)
        # Of a child that the models think best two variables are a mutation's.
        others = (born[:, None, ~kept] != parents[:, ~kept]).mean(axis=2) > 0.6
        assert ((same & others).any(axis=1).sum() >= count) == drawn


@pytest.mark.parametrize("seed", [0, 1])
def test_it_finds_more_than_the_plain_search_does_with_as_many_evaluations(seed: int) -> None:
    evaluators = {
        "latency": Fixed(lambda s, p: s.encode(p).mean(axis=1) ** 2, exact=True),
        "error": Fixed(toy.error),
    }
    assisted = search(ROOMY, evaluators, population=16, generations=5, seed=seed)
    plain = search(ROOMY, evaluators, algorithm="plain", population=16, generations=5, seed=seed)
    assert len(assisted.values) <= len(plain.values)
    assert assisted.hypervolume[-1] > plain.hypervolume[-1]


def test_noise_does_not_choose_the_front() -> None:
    """Of many estimates the lowest is the luckiest; what the model chooses is better in truth."""
    truths = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noisy = Fixed(lambda s, p, rng=rng: toy.error(s, p) + 0.05 * rng.standard_normal(len(p)))
        evaluators = {"latency": Fixed(toy.latency, exact=True), "error": noisy}
        result = search(ROOMY_TOY, evaluators, population=32, generations=6, seed=seed)
        by_estimate = non_dominated(result.objectives)
        budgets = np.quantile(result.objectives[:, 0], [0.3, 0.5, 0.7, 0.9])
        truth = toy.error(ROOMY_TOY, result.values)
        truths.append([_best(result, front, budgets, truth) for front in (result.front, by_estimate)])
    smoothed, lucky = np.mean(truths, axis=0)
    assert smoothed < lucky


ROOMY_TOY = SearchSpace.of(toy.network(256))


def _best(result: object, front: np.ndarray, budgets: np.ndarray, truth: np.ndarray) -> float:
    """Mean true value of the slowest of ``front`` within each budget."""
    latency = result.objectives[front, 0]  # type: ignore[attr-defined]
    return float(np.mean([truth[front[np.flatnonzero(latency <= budget)[-1]]] for budget in budgets]))


def test_candidates_cover_the_range_of_latencies(space: SearchSpace, evaluators: dict[str, Fixed]) -> None:
    latency = np.sort(search(space, evaluators, population=32, generations=6).reported[:, 0])
    reach = np.ptp(toy.latency(space, np.stack([space.low, space.high])))
    assert np.diff(latency).max() < 0.08 * reach


def test_the_same_seed_gives_the_same_result(space: SearchSpace, evaluators: dict[str, Fixed]) -> None:
    one, same, other = (
        search(space, evaluators, population=8, generations=4, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.values, same.values)
    assert {row.tobytes() for row in one.values} != {row.tobytes() for row in other.values}


@pytest.mark.parametrize("channels", [8, 9])
def test_a_tiny_space_is_searched_to_the_last_architecture(channels: int) -> None:
    space = toy.tiny(channels, 0.5 if channels == 8 else 0.45)
    evaluators = {"latency": Fixed(toy.latency, exact=True), "error": Fixed(toy.error)}
    result = search(space, evaluators, population=8, generations=60)
    assert {row.tobytes() for row in result.values} == {row.tobytes() for row in toy.everything(space)}


@pytest.mark.parametrize("exact", [(), ("latency",), ("latency", "size"), ("latency", "size", "error")])
def test_any_number_of_objectives_and_of_exact_ones(space: SearchSpace, exact: tuple[str, ...]) -> None:
    functions = {"latency": toy.latency, "size": lambda s, p: p[:, :2].sum(axis=1), "error": toy.error}
    evaluators = {name: Fixed(function, name in exact) for name, function in functions.items()}
    result = search(space, evaluators, population=12, generations=4)
    assert result.reported.shape == (len(result.front), 3)
    assert len(result.values) >= 12 * 5
    assert 0 < result.hypervolume[0] <= result.hypervolume[-1] <= 1


class Trained:
    """Values hang on what the generation was announced with, as those of a supernet trained on it."""

    def begin_generation(self, population: Population, generation: int) -> bool:
        self.shift = zlib.crc32(population.tobytes()) / 2**33
        return generation > 0

    def evaluate(self, space: SearchSpace, population: Population) -> Population:
        return toy.error(space, population) + self.shift


@pytest.mark.parametrize("stale", [True, False])
@pytest.mark.parametrize("variant", ["joint", "sequential"])
def test_an_interrupted_search_is_the_same_bit_for_bit(
    tmp_path: object, space: SearchSpace, stale: bool, variant: Variant
) -> None:
    path = tmp_path / "state.npz"  # type: ignore[operator]

    def ready() -> AssistedSearch:
        evaluators = {
            "latency": Fixed(toy.latency, exact=True),
            "error": Trained() if stale else Fixed(toy.error),
        }
        return AssistedSearch(
            space=space, evaluators=evaluators, population=8, generations=4, variant=variant
        )

    whole = ready()
    state = broken = whole.start(np.random.default_rng(0))
    while not whole.is_done(state):
        state = whole.step(state, np.random.default_rng(state.generation))
        checkpoint.save(path, broken, ready())
        again = ready()
        loaded = checkpoint.load(path, again)
        assert loaded is not None
        broken = again.step(loaded, np.random.default_rng(loaded.generation))
        for name in ("values", "objectives", "current", "population", "hypervolume"):
            np.testing.assert_array_equal(getattr(broken, name), getattr(state, name))
    if stale:
        assert not state.current.all()
        assert set(whole.front(state)[0]) <= set(np.flatnonzero(state.current))
