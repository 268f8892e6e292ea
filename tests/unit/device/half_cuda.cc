// Libraries that are no driver, or half of one: with SCALEWATCH_HALF it has the two functions that come first.
#ifdef SCALEWATCH_HALF
extern "C" int cuInit(unsigned /*flags*/) {
  return 0;
}
extern "C" int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
#endif
