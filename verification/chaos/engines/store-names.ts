/** The stores that a campaign can be run on. */
export const STORES = ["postgres", "redis", "etcd", "zookeeper", "http", "consul"] as const;
export type StoreName = (typeof STORES)[number];
