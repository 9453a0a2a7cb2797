/** Support for apps that are served below a path of another origin. */
import { getPath } from "hono/utils/url";
import { InvalidOptionError } from "leasehold";

/** Only segments that have a single encoding in URLs. */
const BASE_PATH = /^(\/(?!\.\.?(\/|$))[\w.~-]+)+$/;

/** @throws InvalidOptionError unless it is empty, or a path without a trailing slash */
export function checkBasePath(basePath: string): void {
  if (basePath === "" || BASE_PATH.test(basePath)) return;
  throw new InvalidOptionError(
    "basePath",
    "must be like /leasehold: a slash before each segment, none at the end; letters, digits, . _ ~ -",
  );
}

/** A task whose id is the name of another route, as `taskInPath` writes it. Decoded, it would be that route. */
const ESCAPED = /\/api\/tasks\/(%[67][0-9a-f][a-z]*)(?=[/?#]|$)/i;

function pathOf(request: Request): string {
  const path = getPath(request);
  const [, escaped] = (request.url.includes("%") && ESCAPED.exec(request.url)) || [];
  return escaped === undefined ? path : path.replace(/(?<=\/api\/tasks\/)[^/]+/, escaped);
}

/** Strips the base from a request's path. Paths outside the base match no route. */
export function pathBelow(basePath: string): (request: Request) => string {
  return (request) => {
    const path = pathOf(request);
    if (path === basePath) return "/";
    // No route begins like that.
    return path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : `/..${path}`;
  };
}
