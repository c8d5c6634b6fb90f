"""The story of `kubestow demo gpu-queue`: ten GPU jobs, eight GPUs of quota."""
