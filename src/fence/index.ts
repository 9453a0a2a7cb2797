export { FENCE_TABLE, type FenceClient, type FenceOptions, fence } from "./sql.js";
