# reads:  the config
# writes: plan.json


rule plan:
    """Write down what will be measured."""
    output:
        f"{RESULTS}/plan.json",
    params:
        plan=lambda _: json.dumps(PLAN.to_dict()),
    message:
        "Plan: {RESULTS}/plan.json"
    run:
        storage.write_json(Path(output[0]), json.loads(params.plan))
