/** The cookies of the console's sessions, which no script of a page can read. */

/** A browser takes a cookie with this prefix only with TLS, from this host, and for all of its paths. */
const HOST_PREFIX = "__Host-";

export type CookieName = "leasehold-session" | "leasehold-sign-in";

export class Cookies {
  readonly #isTls: boolean;

  /** @param isTls whether browsers reach the app by TLS */
  constructor(isTls: boolean) {
    this.#isTls = isTls;
  }

  /** The value that the request has; undefined: none, or several, of which others may have set one. */
  read(request: Request, name: CookieName): string | undefined {
    const full = this.#fullName(name);
    const values = (request.headers.get("cookie") ?? "").split(/; */).flatMap((pair) => {
      const at = pair.indexOf("=");
      return at > 0 && pair.slice(0, at).trim() === full ? [pair.slice(at + 1).trim()] : [];
    });
    return values.length === 1 ? values[0] : undefined;
  }

  /**
   * The header that sets a cookie, for this site alone. `Strict` would keep back what the redirect of the issuer needs.
   * @param seconds 0 deletes it
   */
  set(name: CookieName, value: string, seconds: number, sameSite: "Lax" | "Strict"): string {
    const parts = [`${this.#fullName(name)}=${value}`, "Path=/", "HttpOnly"];
    parts.push(`SameSite=${sameSite}`, `Max-Age=${Math.max(0, Math.floor(seconds))}`);
    if (this.#isTls) parts.push("Secure");
    return parts.join("; ");
  }

  #fullName(name: CookieName): string {
    return this.#isTls ? `${HOST_PREFIX}${name}` : name;
  }
}
