import { createContext, useContext, useSyncExternalStore } from "react";
import type { Player, View } from "./player.js";

export const PlayerContext = createContext<Player | null>(null);

export function usePlayer(): Player {
  const player = useContext(PlayerContext);
  if (!player) throw new Error("usePlayer needs a PlayerContext");
  return player;
}

/** The view, updated with every frame: for the stage and the timeline. */
export function useView(): View {
  const player = usePlayer();
  return useSyncExternalStore(player.subscribe, player.view);
}

/** The view, updated a few times a second: for text. */
export function useCalmView(): View {
  const player = usePlayer();
  return useSyncExternalStore(player.subscribeCalmly, player.calmView);
}
