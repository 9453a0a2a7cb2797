export { replay, report, runPrograms } from "./campaign.js";
export { FAMILIES } from "./families.js";
export type { Family } from "./family.js";
