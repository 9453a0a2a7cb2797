/**
 * What a store says of the package of its engine, which the user installs beside this one. The store imports it in a `try` block:
 * bundlers then only warn of a package that is not installed, and the bundle can do without it.
 */
import { classOf, isError, propertyOf, reasonOf } from "../env/index.js";
import { StoreMisconfiguredError } from "../lease/index.js";

/** The messages of Node, Bun, Deno, bundlers and Jest. */
const NOT_FOUND =
  /^(?:(?:Cannot|Could not) find (?:package|module)|Could not resolve) ['"]([^'"]+)['"]/;

/**
 * @param name of the package
 * @param error of its import
 * @returns says whether it is missing or cannot be loaded, with the real cause
 */
export function driverError(name: string, error: unknown): StoreMisconfiguredError {
  const message = propertyOf(error, "message");
  // The driver itself may need a package that is missing; the message names which one was not found.
  if (typeof message !== "string" || NOT_FOUND.exec(message)?.[1] !== name) {
    const kind = isError(error) ? `${classOf(error)}: ` : "";
    return unusable(name, `${kind}${reasonOf(error)}`, error);
  }
  return new StoreMisconfiguredError(`the package ${name} is missing: npm install ${name}`, error);
}

function unusable(name: string, reason: string, error: unknown): StoreMisconfiguredError {
  return new StoreMisconfiguredError(
    `the package ${name} is installed but cannot be loaded: ${reason}; install it again, in a version that leasehold supports`,
    error,
  );
}

/**
 * @param part that the store uses; undefined in a version of the package that lacks it
 * @throws STORE_MISCONFIGURED if it lacks it
 */
export function driverPart<Part>(name: string, part: Part | undefined): Part {
  if (part !== undefined) return part;
  throw new StoreMisconfiguredError(
    `the package ${name} lacks what leasehold uses of it: install a version that leasehold supports (its peerDependencies)`,
  );
}
