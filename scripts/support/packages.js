/** The packages that are published, each after those that it needs. All have one version. */
export const PUBLISHED = ["leasehold", "leasehold-server", "create-leasehold"];
