import { systemEnv } from "../../../packages/leasehold/src/env/index.js";
import { LeaseholdError } from "../../../packages/leasehold/src/lease/index.js";
import { lockDirectory } from "../../../packages/leasehold/src/stores/postgres/directory-lock.js";

// Locks the directory, says `locked` or the code of the error, and stays until it is killed.
try {
  await lockDirectory(process.argv[2] ?? "", systemEnv);
  console.log("locked");
  setInterval(() => {}, 60_000);
} catch (error) {
  console.log(error instanceof LeaseholdError ? error.code : String(error));
}
