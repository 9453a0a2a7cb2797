/**
 * What the process ends with, beside 0. `run` and `elect` end with the command's own code, or 128 plus
 * the number of the signal that ended the command, as shells do. The numbers of 64 and above are those
 * of sysexits.h where it has a fitting one.
 */
export const EXIT = {
  failed: 1,
  /** A wrong option, argument or file (EX_USAGE). */
  usage: 64,
  /** The store does not answer (EX_UNAVAILABLE). */
  storeUnavailable: 69,
  /** `run`, `acquire`: somebody else held the lease for as long as we would wait; `why`: it is held or refused (EX_TEMPFAIL). */
  leaseUnavailable: 75,
  /** The lease was lost: `run` has stopped its command, `renew` and `release` were refused (EX_PROTOCOL). */
  leaseLost: 76,
  /** The store cannot work as it is set up (EX_CONFIG). */
  misconfigured: 78,
  /** `run`, `elect`: as shells answer for a command that is no program, and for one that does not exist. */
  notExecutable: 126,
  notFound: 127,
} as const;
