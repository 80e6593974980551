"""Conditions in randomised blocks: interventions, stressors, loading, micro-benchmarks."""
