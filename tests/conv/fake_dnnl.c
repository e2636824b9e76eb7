/* A oneDNN in name only: FAKE_MAJOR is the version and FAKE_RUNTIME the kind of threads that it claims (1: none, 4:
 * TBB); FAKE_ALIEN leaves even that out. No other function. */
struct version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu, gpu;
};

#ifdef FAKE_ALIEN
int convoy_no_dnnl(void);
int convoy_no_dnnl(void) { return 0; }
#else
const struct version *dnnl_version(void);
const struct version *dnnl_version(void)
{
    static const struct version v = {FAKE_MAJOR, 9, 0, "fake", FAKE_RUNTIME, 0};
    return &v;
}
#endif
