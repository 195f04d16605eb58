// rank exits at once. make bench-spawn measures how long its start takes.
int main(void) { return 0; }
