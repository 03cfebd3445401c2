/* The functions that stand in for libcuda's, by number; a name is NULL past the last. */
const char *cudrvtest_name(int i);
void *cudrvtest_function(int i);
