#!/bin/bash
# A Slurm job whose trainer is watched: sbatch deploy/jobs/slurm.sh python train.py ...
#
# The client takes everything from the environment, so the training script says only scalewatch.attach(model, optimizer, scaler).
# Put your own host in place of scalewatch.example.org, or use a server on the same machine and leave out token and CA.
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --requeue
set -euo pipefail

export SCALEWATCH_SERVER=scalewatch.example.org:7462
# The job's name, not its number: a requeued job goes on as a new segment of the same run.
export SCALEWATCH_RUN="$SLURM_JOB_NAME"
export SCALEWATCH_TOKEN_FILE="$HOME/.config/scalewatch/token"       # mode 0600; a token that may ingest this run
export SCALEWATCH_CA_FILE=/etc/ssl/certs/scalewatch-ca.pem          # authority of the server's certificate
# With clients' certificates (tls.client_ca of the server):
#   export SCALEWATCH_CERT_FILE=$HOME/.config/scalewatch/client.pem SCALEWATCH_KEY_FILE=$HOME/.config/scalewatch/client.key
# What the server can't take for now waits on the node's own disk, not in a shared folder.
export SCALEWATCH_SPOOL_DIR="${TMPDIR:-/tmp}/scalewatch-$SLURM_JOB_ID"

# What torch.distributed reads; every task learns its own rank from Slurm.
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=${hosts%%$'\n'*}
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export MASTER_ADDR MASTER_PORT WORLD_SIZE=$SLURM_NTASKS

# SC2016: the task's shell puts in these, not this one.
# shellcheck disable=SC2016
exec srun --kill-on-bad-exit=1 bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID; exec "$@"' task "$@"
