DELETE j
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    id BIGINT PATH '$.id', fate VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.fate')) AS d
STRAIGHT_JOIN queue_jobs AS j FORCE INDEX (PRIMARY) ON j.id = d.id
WHERE d.fate IN ('dead', 'cancelled')
