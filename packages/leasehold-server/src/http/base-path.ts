/** Apps that are served below a path of somebody else's origin. */
import { getPath } from "hono/utils/url";
import { InvalidOptionError } from "leasehold";

/** Segments that no URL writes in two ways. */
const BASE_PATH = /^(\/(?!\.\.?(\/|$))[\w.~-]+)+$/;

/** @throws InvalidOptionError unless it is none at all, or a path without a slash at its end */
export function checkBasePath(basePath: string): void {
  if (basePath === "" || BASE_PATH.test(basePath)) return;
  throw new InvalidOptionError(
    "basePath",
    "must be like /leasehold: a slash before each segment, none at the end; letters, digits, . _ ~ -",
  );
}

/** From a request to the path that the routes know; what lies outside of the base is no route. */
export function pathBelow(basePath: string): (request: Request) => string {
  return (request) => {
    const path = getPath(request);
    if (path === basePath) return "/";
    // No route begins like that.
    return path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : `/..${path}`;
  };
}
