/* A library without any driver function. */
extern int cushim_test_nothing;
int cushim_test_nothing;
