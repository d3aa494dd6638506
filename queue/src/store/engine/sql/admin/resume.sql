DELETE FROM queue_paused WHERE queue = $1
