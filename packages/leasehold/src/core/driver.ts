/** Loads the package of an engine, which the user installs beside this one. */
import { StoreMisconfiguredError } from "./errors.js";

/**
 * @param name of the package
 * @param load imports it
 * @param pick returns the part that the store uses; undefined in a version that lacks it
 * @throws STORE_MISCONFIGURED if it is missing, cannot be loaded, or lacks the part: with the real cause
 */
export async function loadDriver<Module, Part>(
  name: string,
  load: () => Promise<Module>,
  pick: (loaded: Module) => Part | undefined,
): Promise<Part> {
  let loaded: Module;
  try {
    loaded = await load();
  } catch (error) {
    if (isMissing(error, name)) {
      throw new StoreMisconfiguredError(
        `the package ${name} is missing: npm install ${name}`,
        error,
      );
    }
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new StoreMisconfiguredError(
      `the package ${name} is installed but cannot be loaded: ${reason}; install it again, in a version that leasehold supports`,
      error,
    );
  }
  const part = pick(loaded);
  if (part !== undefined) return part;
  throw new StoreMisconfiguredError(
    `the package ${name} lacks what leasehold uses of it: install a version that leasehold supports (its peerDependencies)`,
  );
}

/** A package that the driver itself needs may be missing too; the message names which one was not found. */
function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error)) return false;
  return /^Cannot find (?:package|module) ['"]([^'"]+)['"]/.exec(error.message)?.[1] === name;
}
