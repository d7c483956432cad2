from embedrun.curation.generation.answers import differs_enough, missing_words

# Of "a plane is taking off ." the words "taking", "off" and "." are not in the other; "a", "plane", "is" are.
SENTENCE, OTHER = "a plane is taking off .", "a plane is landing"


def test_words_of_the_sentence_that_the_negative_lacks_are_counted_once_each():
    assert missing_words(SENTENCE, OTHER) == 3
    assert missing_words("no no no yes", "yes") == 1
    assert missing_words(SENTENCE, SENTENCE) == 0


def test_the_sentences_own_words_count_and_not_those_of_the_negative():
    assert missing_words("cat", "a dog sat on the mat") == 1
    assert missing_words("a dog sat on the mat", "cat") == 6


def test_case_and_punctuation_make_another_word():
    assert missing_words("The cat.", "the cat") == 2


def test_a_negative_is_kept_from_so_many_missing_words_on():
    assert differs_enough(SENTENCE, OTHER, 3)
    assert not differs_enough(SENTENCE, OTHER, 4)
    assert differs_enough("one two three four five", "six", 5)
    assert not differs_enough("one two three four", "six", 5)
