// The script of a page.
import * as library from "leasehold";
import { exercise } from "./exercise.mjs";

globalThis.exercise = async (/** @type {string} */ url) => {
  for (const source of ["memory:", url]) {
    const leasehold = await library.connect(source);
    await exercise(library, leasehold, { hasTasks: true });
    await leasehold.close();
  }
};
