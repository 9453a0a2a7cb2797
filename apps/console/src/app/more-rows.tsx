/** The end of a list that is read page by page: coming into view, it asks for the next one. */
import { useEffect, useRef } from "react";
import { Button } from "../ui/button.js";

interface Props {
  /** What the list's query has come to: `useInfiniteQuery` gives it. */
  readonly pages: {
    readonly hasNextPage: boolean;
    readonly isFetchingNextPage: boolean;
    readonly fetchNextPage: () => Promise<unknown>;
  };
  /** Reads on by itself; default true. */
  readonly automatic?: boolean;
  readonly label?: string;
}

export function MoreRows({ pages, automatic = true, label = "Show more" }: Props) {
  const end = useRef<HTMLDivElement>(null);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages;
  const waits = automatic && hasNextPage && !isFetchingNextPage;
  useEffect(() => {
    const element = end.current;
    if (!waits || !element) return;
    const watcher = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) void fetchNextPage();
      },
      { rootMargin: "400px" },
    );
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [waits, fetchNextPage]);
  if (!hasNextPage) return null;
  return (
    <div ref={end} className="grid place-items-center p-3">
      <Button small disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
        {isFetchingNextPage ? "Reading on…" : label}
      </Button>
    </div>
  );
}
