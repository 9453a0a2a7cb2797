/**
 * Exit codes of the process, besides 0. `run` and `elect` exit with the command's own code, or 128 plus
 * the number of the signal that ended the command, as shells do. Codes from 64 follow sysexits.h where
 * it defines a fitting one.
 */
export const EXIT = {
  failed: 1,
  /** A wrong option, argument or file (EX_USAGE). */
  usage: 64,
  /** The store is unavailable (EX_UNAVAILABLE). */
  storeUnavailable: 69,
  /** `worker`: too many handlers go on although their tasks are lost, so it claims no more (EX_SOFTWARE). */
  workerStuck: 70,
  /** The output could not be written, as on a full disk (EX_IOERR). */
  outputFailed: 74,
  /** `run`, `acquire`: another holder kept the resource for the whole wait; `why`: an acquire would be refused (EX_TEMPFAIL). */
  leaseUnavailable: 75,
  /** The lease was lost: `run` stopped its command, or `renew` or `release` was refused (EX_PROTOCOL). */
  leaseLost: 76,
  /** The store is misconfigured (EX_CONFIG). */
  misconfigured: 78,
  /** `run`, `elect`: the codes that shells use for a command that is not executable, and for one that is not found. */
  notExecutable: 126,
  notFound: 127,
  /** The reader of the output closed it: the code that shells give a program that SIGPIPE ended. */
  outputClosed: 141,
} as const;
