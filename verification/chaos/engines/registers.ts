/**
 * What the holders write to: one register per resource, kept twice. The fenced one refuses a token
 * smaller than the largest it has seen. The other takes whatever comes, as a resource without a fence
 * would: it must be seen to suffer, or nothing was put to the test.
 */
export interface Write {
  readonly resource: string;
  readonly token: number;
  /** Names the grant. */
  readonly grant: string;
  /** The process, by name and incarnation. */
  readonly by: string;
  /** The holder trusted its lease at some time after this. */
  readonly checkedMs: number;
}

interface Accepted {
  readonly token: number;
  readonly grant: string;
  /** When its first write came. */
  readonly atMs: number;
  /** When its last one came. */
  lastMs: number;
}

interface Register {
  fencedToken: number;
  /** One for each grant that wrote, in the order of their first writes. */
  readonly accepted: Accepted[];
  unfencedToken: number;
}

/** A holder that trusted its lease when a successor had written already. */
export interface Breach extends Pick<Write, "resource" | "token" | "by"> {
  readonly atMs: number;
  readonly what: string;
}

export class Registers {
  readonly registers = new Map<string, Register>();
  readonly breaches: Breach[] = [];
  writes = 0;
  /** Stale writes that the fence has refused. */
  refused = 0;
  /** Stale writes that replaced a newer holder's where there is no fence. */
  unfencedViolations = 0;

  /** @returns whether the fence let it pass */
  write(request: Write, atMs: number): boolean {
    const { resource, token, grant, by, checkedMs } = request;
    this.writes += 1;
    const register = this.#of(resource);
    if (token < register.unfencedToken) this.unfencedViolations += 1;
    register.unfencedToken = token;
    const successor = register.accepted.find((other) => other.token > token);
    if (successor && successor.atMs < checkedMs) {
      const what = `trusted while ${successor.token} had written`;
      this.breaches.push({ resource, token, by, what, atMs: checkedMs });
    }
    if (token < register.fencedToken) {
      this.refused += 1;
      return false;
    }
    register.fencedToken = token;
    const known = register.accepted.find((other) => other.grant === grant);
    if (known) known.lastMs = atMs;
    else register.accepted.push({ token, grant, atMs, lastMs: atMs });
    return true;
  }

  #of(resource: string): Register {
    let register = this.registers.get(resource);
    if (!register) {
      register = { fencedToken: 0, accepted: [], unfencedToken: 0 };
      this.registers.set(resource, register);
    }
    return register;
  }
}
