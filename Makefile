.DEFAULT_GOAL := help
.PHONY: help setup test test-slow test-gpu test-pretend test-pretend-all test-browser test-all bench-loss bench-data bench-eval bench-encode bench-ir bench-train-cpu bench-train-cuda bench-start bench-quality chaos packages lint format docs site constraints clean

python := .venv/bin/python

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## make .venv with the tested versions and the linters
	./setup --dev

test: ## the default tests; EMBEDRUN_DATA=DIR adds those on real text
	$(python) -m pytest -q

test-slow: ## tests of over 15 seconds and further cases, on real text; needs EMBEDRUN_DATA=DIR, and the extra oracle for some
	$(python) -m pytest -q -n 0 -m slow

test-gpu: ## tests that need a CUDA device
	$(python) -m pytest -q -n 0 -m gpu

pretend := PYTHONPATH=tests/pretend $(python) -m pytest -q -n 0 -p pretended_plugin

test-pretend: ## every mix, and the cost of a step, on a simulated CUDA device; needs g++, a minute
	$(pretend) -m pretend tests/pretend --ignore=tests/pretend/test_presets.py

test-pretend-all: ## these, every preset and backbone, and tests of a CUDA device that are small enough; six minutes
	$(pretend) -m "pretend or gpu" tests/pretend tests/loss/test_cuda.py tests/backbone/test_unpadded.py

test-browser: ## the report pages in headless Chromium; needs chromium and chromedriver
	$(python) -m pytest -q -n 0 -m browser

test-all: test test-slow ## both

bench-loss: ## time of the ranking losses beside a cosine; a minute
	$(python) tests/bench/loss.py

bench-data: ## from a Parquet file to the first step, beside datasets; needs EMBEDRUN_DATA=DIR and MINILM=DIR
	$(python) tests/bench/data.py $(if $(ROWS),--rows $(ROWS))

bench-eval: ## time of scoring against the usual tools; needs EMBEDRUN_DATA=DIR and MINILM=DIR, over ten minutes
	$(python) tests/bench/senteval_paper.py
	$(python) tests/bench/sts.py 5 --sample 12 --json build/bench-sts-sample.json
	$(python) tests/bench/sts.py --json build/bench-sts.json

bench-encode: ## how encoding grows with sentences, beside sentence-transformers; needs EMBEDRUN_DATA=DIR and MINILM=DIR
	$(python) tests/bench/encode.py --json build/bench-encode.json

bench-ir: ## retrieval against sentence-transformers' evaluator; needs EMBEDRUN_DATA=DIR and MINILM=DIR, five minutes
	$(python) tests/bench/ir.py --json build/bench-ir.json

bench-train-cpu: ## a training step on a processor against sentence-transformers; needs EMBEDRUN_DATA=DIR and MINILM=DIR, 15 minutes
	OMP_NUM_THREADS=1 $(python) tests/bench/train_cpu.py --json build/bench-train-cpu.json

bench-train-cuda: ## a training step on a CUDA device in each way, and against sentence-transformers; a minute
	$(python) tests/bench/train_cuda.py

bench-quality: ## held-out scores with and without padding, and by length, five seeds; needs EMBEDRUN_DATA=DIR and MINILM=DIR, an hour
	OMP_NUM_THREADS=1 $(python) tests/bench/quality.py --json build/bench-quality.json

bench-start: ## cold starts: the first vector against sentence-transformers, check, table, --dry-run; needs EMBEDRUN_DATA=DIR and MINILM=DIR, three minutes
	$(python) tests/bench/start.py --json build/bench-start.json

chaos: ## runs killed at random and at every moment of a save, a full disk, signals; 20 minutes
	$(python) -m pytest -q -m chaos


packages: ## the wheel in empty environments, each with the default tests; PYTHONS="python3.11 python3.13", half an hour each
	$(python) scripts/packages.py $(PYTHONS)

lint: ## ruff and pyright
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright

format: ## rewrite the code as ruff formats it
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .

docs: ## docs/options.md, from what the options say of themselves
	$(python) scripts/options.py

site: ## the pages of docs/ as a site in build/site, without network; needs the extra docs
	@NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --strict --quiet
	@! grep -rnE '<(script|link|img)[^>]*(src|href)="?(https?:)?//' build/site --include='*.html'

constraints: ## write down the versions that are installed now
	@{ sed -n '/^#/p' constraints.txt; \
	   $(python) -m pip list --format=freeze --exclude embedrun --exclude pip --exclude setuptools \
	   | sed 's/+cpu//'; } > constraints.new && mv constraints.new constraints.txt

clean: ## remove caches and build output; runs in outputs/ stay
	rm -rf .pytest_cache .ruff_cache dist build
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
