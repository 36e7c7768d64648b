#ifndef LAUNCH_H
#define LAUNCH_H

inline int block_size(int n) {
  int threads = (n + 31) / 32 * 32;
  return threads > 1024 ? 1024 : threads;
}

#endif
