# embedrun on CUDA. Not built or run so far.
#   docker build -t embedrun .
#   docker run --rm --gpus all -v "$PWD/outputs:/runs/outputs" -v "$DATA:/data:ro" embedrun train +experiment=quickstart
# The wheels of torch bring CUDA; the host needs NVIDIA's driver and container toolkit alone.
FROM python:3.11-slim

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY embedrun ./embedrun
COPY conf ./conf
RUN python -m pip install --no-cache-dir -c constraints.txt '.[senteval,tensorboard,sweep,hpo]'

RUN useradd --create-home user && mkdir /runs && chown user /runs
USER user
WORKDIR /runs
ENV EMBEDRUN_DATA=/data PYTHONUNBUFFERED=1
ENTRYPOINT ["embedrun"]
CMD ["--help"]
