use super::header::SHORT_CAS_MAX;
use super::*;

const NOW_S: u32 = 6;

fn memory() -> Vec<u64> {
    vec![u64::MAX; 512 + PIECES_MAX]
}

fn block(memory: &mut [u64]) -> Block<'_> {
    // SAFETY: the memory is aligned, long enough, and borrowed for as long as the block.
    unsafe { Block::from_raw(NonNull::new(memory.as_mut_ptr().cast()).unwrap()) }
}

#[test]
fn a_block_and_its_copy_return_the_stored_fields_in_every_layout() {
    let (mut memory, mut other) = (memory(), memory());
    // The first two arguments are the lengths of the key and of the value. The third is the client
    // flags, and the last argument of `pieces` is the number of pieces.
    let (no_flags, no_cas) = (0, None);
    let (without_expiry, with_expiry) = (false, true);
    let all_fields = [
        HeaderFields::inline(3, 70, no_flags, no_cas, without_expiry),
        HeaderFields::inline(3, 70, no_flags, no_cas, with_expiry),
        HeaderFields::inline(3, 0, 7, Some(9), without_expiry),
        HeaderFields::inline(3, 0, 7, Some(9), with_expiry),
        HeaderFields::inline(250, 1000, u32::MAX, Some(u64::MAX), without_expiry),
        HeaderFields::inline(3, 1 << 20, no_flags, no_cas, without_expiry),
        HeaderFields::pieces(3, 1 << 30, 5, 9),
        HeaderFields::pieces(3, 1 << 30, 5, PIECES_MAX),
        HeaderFields::pieces(4, 1 << 30, 5, PIECES_MAX),
    ];
    // The expected layouts: 0 is Plain, 1 Flags, 2 Wide and 3 Pieces.
    for (fields, layout) in all_fields.into_iter().zip([0, 0, 1, 1, 2, 2, 3, 3, 3]) {
        assert_eq!(fields.layout as u32, layout);
        let key = vec![b'k'; fields.key_len];
        let original = block(&mut memory);
        original.write_header_and_key(&fields, &key);
        let cas = if original.can_hold(u64::MAX, Expiry::NEVER) {
            u64::MAX
        } else {
            SHORT_CAS_MAX
        };
        original.set_cas(cas);
        let expiry = match fields.has_expiry_word {
            true => Expiry::at(77),
            false => Expiry::NEVER,
        };
        assert_eq!(
            original.can_hold_expiry(Expiry::at(77)),
            fields.has_expiry_word
        );
        original.set_expiry(expiry);
        original.set_access(
            Access::new(5)
                .with_stale_and_claimed(true, false)
                .fetched_at(NOW_S),
        );
        assert_eq!(
            (original.header_fields(), original.key()),
            (fields, &key[..])
        );
        assert_eq!((original.cas(), original.len()), (cas, fields.block_len()));
        assert!(!original.is_piece() && !original.is_end_marker());
        // Longer values have no bytes in `memory`: they are in pieces, or the block is too long.
        if fields.value_len < 2000 {
            // SAFETY: only this test has access to the block.
            unsafe { original.value_mut() }.fill(b'v');
        }
        // A block with an inline value of 1 MiB is longer than the memory, so it is not copied.
        if fields.value_len != 1 << 20 {
            let copy = block(&mut other);
            copy.copy_from(original);
            assert_eq!((copy.header_fields(), copy.key()), (fields, &key[..]));
            assert_eq!((copy.cas(), copy.expiry()), (cas, expiry));
            let access = copy.access();
            assert_eq!((access.time_s(NOW_S), access.is_stale()), (NOW_S, true));
            assert!(access.is_fetched() && !access.is_claimed());
            if fields.value_len < 2000 {
                assert_eq!(copy.value(), vec![b'v'; fields.value_len]);
            }
        }
    }
}

#[test]
fn the_list_of_pieces_is_copied_to_a_block_with_another_alignment() {
    let (mut memory, mut other) = (memory(), memory());
    let original = block(&mut memory);
    original.write_header_and_key(&HeaderFields::pieces(3, 1000, 0, 4), b"key");
    for (number, piece) in original.pieces().iter().enumerate() {
        piece.store(number as u64 + 1, Ordering::Relaxed);
    }
    let start = NonNull::new(other.as_mut_ptr().cast::<u8>().wrapping_add(4)).unwrap();
    // SAFETY: as in `block`, except that the block begins four bytes later.
    let copy = unsafe { Block::from_raw(start) };
    copy.copy_from(original);
    let numbers: Vec<u64> = copy
        .pieces()
        .iter()
        .map(|it| it.load(Ordering::Relaxed))
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
}

#[test]
fn a_piece_returns_its_hash_its_number_and_its_length() {
    let mut memory = memory();
    let piece = block(&mut memory);
    piece.write_piece_header(0x0123_4567_89ab_cdef, PIECES_MAX, 1001);
    assert_eq!(piece.piece_hash(), 0x0123_4567_89ab_cdef);
    assert_eq!(
        (piece.piece_number(), piece.piece().len()),
        (PIECES_MAX, 1001)
    );
    assert_eq!(piece.len(), 1020);
    assert!(piece.is_piece() && !piece.is_end_marker());
    piece.write_end_marker();
    assert!(piece.is_end_marker());
}
