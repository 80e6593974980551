/* MKL asks this function of its own whether the CPU is Intel's, and takes an old kernel if not.
 * Preloaded, this answer makes it choose by the CPU's instruction sets alone. Intel does not
 * support this: the study offers it as an explicit choice only (blas: bundled-intel-path). */
int mkl_serv_intel_cpu_true(void) { return 1; }
