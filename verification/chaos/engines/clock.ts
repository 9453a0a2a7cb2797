/** On the machine's monotonic clock, which all processes share, in milliseconds. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
