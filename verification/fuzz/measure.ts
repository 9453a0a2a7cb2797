/** What a process holds. */

export interface Holdings {
  /** After collecting garbage, in bytes. */
  readonly heap: number;
  /** Timers that hold the process open. */
  readonly timers: number;
  /** What libuv keeps: sockets, servers, child processes. */
  readonly handles: number;
}

interface Handle {
  readonly type: string;
  readonly is_active: boolean;
}

/** Collects garbage, which takes `node --expose-gc`. */
export async function holdings(): Promise<Holdings> {
  const { gc } = globalThis as { gc?: () => void };
  if (!gc) throw new Error("run node with --expose-gc");
  // Finalizers run in between, and free more.
  for (let round = 0; round < 4; round += 1) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { libuv } = process.report.getReport() as unknown as { libuv: readonly Handle[] };
  return {
    heap: process.memoryUsage().heapUsed,
    timers: process.getActiveResourcesInfo().filter((type) => type === "Timeout").length,
    handles: libuv.filter(({ type }) => /^(tcp|udp|pipe|process|fs_event|fs_poll)$/.test(type))
      .length,
  };
}
