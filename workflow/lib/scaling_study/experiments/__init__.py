"""One thing changed at a time: interventions, stressors, samples."""
