/** Who sends a request, as its credential says: never anything in the request itself. */
import type { Role } from "../control/index.js";

export interface Caller {
  /** Whose resources and tasks these are. */
  readonly namespace: string;
  readonly role: Role;
  /** Of a holder: what it may lease begins with one of these; `""` is any. */
  readonly prefixes: readonly string[];
  /** For the audit and the logs: `key:<id>`, or `anyone` where no key is asked for. */
  readonly actor: string;
}

export function callerOf(context: { get(name: "caller"): Caller }): Caller {
  return context.get("caller");
}
