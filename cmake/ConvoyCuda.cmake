# CUDA is used when nvcc is found (CONVOY_CUDA=AUTO), demanded (ON) or left out (OFF).
set(CONVOY_WITH_CUDA OFF)
