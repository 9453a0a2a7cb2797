/** Which requests had a caller. Hosts may keep connections of callers for longer than others. */
const requests = new WeakSet<Request>();

export function noteAuthenticated(request: Request): void {
  requests.add(request);
}

export function isAuthenticated(request: Request): boolean {
  return requests.has(request);
}
